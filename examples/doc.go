// Package examples holds whole config repositories. Each is a document to read and to copy, and a case of the tests.
//
// In: nothing. Out: directories. Never: code that anything but a test runs.
package examples
