// Package clientca has the CAs whose client certificates authorize machines and identify nodes.
//
// In: a file, or certificates in PEM. Out: the CA certificates in force. Never: what a certificate authorizes.
package clientca
