// Package approve lets new machines into the cluster: a machine asks for its kubelet's certificate with a bootstrap
// token of machine-config-server, and each token admits one machine under one node name. Decide approves the first
// valid request of a token and denies the others; the Controller writes that.
//
// In: certificate requests, Nodes, ProvisioningTokens, the uses of tokens that were seen before, the time. Out: a
// decision for each pending request of such a token. Never: a clock in the decision; a decision about requests of other
// users.
package approve
