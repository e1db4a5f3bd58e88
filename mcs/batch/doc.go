// Package batch combines the writes of many requests into few writes. Items that arrive during a write are written
// together by the next write.
//
// In: items for a key, from many goroutines. Out: a result for each item, after its write. Never: two writes of one key
// at once.
package batch
