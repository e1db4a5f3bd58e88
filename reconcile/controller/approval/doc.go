// Package approval is the controller that approves and denies the certificate requests of new machines, as package
// approve decides.
//
// In: CertificateSigningRequests, Nodes, ProvisioningTokens. Out: conditions of the requests. Never: a decision of its
// own.
package approval
