package mcs

// Share is a part of the bootstrap tokens that a server creates in an hour.
type Share string

// The kinds of shares.
const (
	// ShareOfHolder is for one provisioning token or one client certificate, or one address without either.
	ShareOfHolder Share = "holder"
	// ShareOfAddress is the share of one address: of all tokens, and within one holder's share.
	ShareOfAddress Share = "address"
	// ShareOfServer is all bootstrap tokens that the server creates.
	ShareOfServer Share = "server"
)

// ShareError reports that the client gets no bootstrap token now, so that some are left for others.
type ShareError struct {
	// It is used up.
	Share Share
}

// Error says which share is used up.
func (e *ShareError) Error() string {
	whose := map[Share]string{
		ShareOfHolder:  "this provisioning token's or client certificate's share of the bootstrap tokens of an hour",
		ShareOfAddress: "this address's share of the bootstrap tokens of an hour",
		ShareOfServer:  "the number of bootstrap tokens that this server makes in an hour",
	}
	return whose[e.Share] + " is spent"
}

// BootstrapTokenLength is the length of a bootstrap token, `abcdef.0123456789abcdef` (Kubernetes, bootstrap tokens).
const BootstrapTokenLength = 23

// JoiningMachine is what a bootstrap token is created for. Its description has all fields.
type JoiningMachine struct {
	// Pool and Node that the machine is for; it may be any node of the pool if Node is empty.
	Pool, Node string
	// Token is the id of a provisioning token, or empty.
	Token   string
	Address string
	// Certificate is the subject of the client certificate that admitted the machine, or empty.
	Certificate string
	// Attested: a token or a certificate admitted the machine to the pool, and not open access.
	Attested bool
}
