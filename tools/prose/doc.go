// Command prose finds words that the project does not use: metaphors and misspellings.
//
//	go run -C tools ./prose
//
// It reads Markdown, the string literals of Go programs (messages and help) and the YAML of config/ and examples/. What
// makes a text good is in docs/writing.md, and only a reader can judge it.
//
// In: the files of the repository, words.txt. Out: each line with such a word. Never: a change of a file.
package main
