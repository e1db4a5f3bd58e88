// Package lsp is a language server for config repositories. While a user types, it renders the pools of the repository
// with the unsaved texts, and answers an editor's questions: which problems there are, what a line does to nodes, who
// sets an item besides, where a name leads, which keys there are, and how a problem is corrected.
//
// What it says comes from the functions of `bunsen validate`, `bunsen explain` and `bunsen diff`. It differs from
// `bunsen validate` where that asks git: files are as they stand, not as filters of git have them, nothing says
// whether Bunsen reads the format of the repository, and which files git ignores is known only if all of its rules
// are within the opened folder. The shell copies the repository to a private directory, keeps the texts of the editor
// there, and renders after each change; the answers follow from a text, a position and the last rendering alone.
//
// In: messages of one editor over a pair of streams. Out: answers and diagnostics. Never: a program or hook of the
// repository; a file outside of the folders that the editor opened, or through a symbolic link; the network; a change
// of a file, which only the editor makes.
package lsp
