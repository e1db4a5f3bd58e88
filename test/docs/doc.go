// Package docs checks that the documentation is true: what it shows as configuration is built, what it tells to type
// exists, and what it links to is there.
//
// In: the Markdown files of the repository. Out: tests. Never: code that ships; a block that is passed over in silence.
package docs
