// Package files writes the files of a commit into a directory, and links those that an earlier tree has.
//
// In: names and contents, and the directory of an earlier tree. Out: regular files. Never: a symbolic link that is
// followed below the top; a file of the earlier tree whose content was not compared.
package files
