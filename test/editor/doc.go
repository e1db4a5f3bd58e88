// Package editor drives a real editor, Neovim, in a copy of an example: a typo is marked at its line within a second, a
// hover says what a change costs and who sets the item, and a code action corrects the typo.
//
// In: nvim and bunsen. Out: what the editor shows, compared with testdata. Never: the user's own settings of Neovim.
package editor
