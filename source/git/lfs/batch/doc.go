// Package batch has the pointers of Git LFS, and the requests and answers of its batch API.
//
// In: the content of a file, an answer. Out: pointers, a request, where objects are. Never: text of an answer in an
// error; an object that was not requested; an address without TLS.
package batch
