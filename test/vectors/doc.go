// Package vectors replays recorded answers of the original against this project's functions.
//
// In: testdata/*.json, see README.md. Out: tests, with every difference named and explained. Never: code that ships.
package vectors
