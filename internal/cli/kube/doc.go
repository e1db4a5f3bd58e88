// Package kube is where bunsen meets a cluster. It reads the kubeconfig and the objects that verbs show, keeps a status
// current with watches, on a terminal as a live screen, and explains what the API server refuses. It also has the
// verbs' changes: to pause, hold, release, retry and suspend are merge patches that Pause, Hold and their neighbours
// build from the objects and the time, together with the equivalent kubectl command.
//
// Three verbs need more than objects. Drift asks the daemons through their pods. A support bundle collects objects and
// logs without secrets. A trace joins the rendered config of a node with the lines of a repository.
//
// In: flags, a kubeconfig, the rights of its user. Out: objects, patches, frames or lines on standard output, a tar.gz.
// Never: a decision about what a screen says, which package inspect has; the content of a Secret.
package kube
