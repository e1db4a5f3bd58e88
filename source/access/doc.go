// Package access decides to which hosts the credentials of a Secret may go, and connects to them.
//
// It checks which keys a Secret may have and whether its hosts include the one of a repository. The connections use
// the certificates of the Secret and the proxy of the source, and are the same for git, registries and token
// services.
//
// In: the data of Secrets, the address of a repository. Out: HTTP transports, clients and connections, or errors that
// say what to write. Never: a redirect that is followed; a value of a Secret in an error.
package access
