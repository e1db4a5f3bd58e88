// Package approve decides which new machines get a kubelet's client certificate. A machine requests the certificate
// with a bootstrap token from machine-config-server. Each token admits one machine under one node name: Decide approves
// the first valid request of a token and denies the other requests.
//
// In: the certificate requests and the Nodes of the cluster, the uses of tokens that the caller remembers, and the
// current time. Out: a decision for each pending request of such a token, and the uses to remember. Never: a clock; a
// decision about requests of other users.
package approve
