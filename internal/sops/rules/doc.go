// Package rules reads the creation rules of SOPS, which say for whom a file is encrypted.
//
// In:    the text of a .sops.yaml, and the path of a file relative to it
// Out:   the rule for that file: public keys, key groups, and which values are encrypted
// Never: reads files
package rules
