// Command front stands in for rpm-ostree on hosts of the lab, which are made of Debian: it has the verbs that the
// daemon uses, spelled and answered as rpm-ostree does, over the real `ostree admin`. It is built for the tests and put
// into their image as /usr/bin/rpm-ostree; nobody else runs it.
//
//	status --json                      ostree admin status, origin files, boot loader entries
//	rebase … ostree-unverified-…:IMG   ostree pull-local from the registry's directory, ostree admin deploy --stage
//	kargs [--append= --delete= …]      ostree admin deploy --stage of the same commit, with the whole list
//	cleanup -p | -r                    ostree admin undeploy
//	rollback                           ostree admin deploy --stage of the earlier commit
//
// In: argv, a booted OSTree host, images in /run/registry or at the remote "lab". Out: staged deployments, status as
// JSON. Never: packages or overrides (there are no RPMs).
package main
