// Package files is the server's cluster where there is none: what it offers and whom it believes, from files.
//
// A Dir holds rendered configs, Tokens holds provisioning tokens and counts their uses on disk, Offers puts whatever
// configs there are on the shelf. Files are looked at again every few seconds, by content; while they are bad, the last good
// ones stay.
//
// In: files of MachineConfig and ProvisioningToken objects, a folder for counts. Out: offers on a shelf; tokens and their
// uses. Never: a use that is granted before it is on disk; a token's secret, which the files do not have; the network.
package files
