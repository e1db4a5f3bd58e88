// Package licence recognises the text of a licence.
//
// In: the text of a file. Out: its known licences, and the words that belong to none. Never: a guess. A text with one
// clause more or less than a known licence is unknown. So is a text with another sentence that is not in accepted.txt,
// also in a line of copyright.
package licence
