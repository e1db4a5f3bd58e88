// Command release checks the licences of the modules that the binaries link, and creates the files of a release: the
// notices of third parties and a bill of materials for each binary, images, and the manifests and the Helm chart that
// install the images.
//
//	release licences                        fails where a module has no licence that is allowed
//	release files -o DIR -version V         writes DIR/BINARY.notices.txt and DIR/BINARY.cdx.json
//	release images -o DIR -version V        writes DIR/images, an OCI layout, and DIR/images.json; with -push also to a registry
//	release all -o DIR -version V           writes all of these, an archive of the programs, the daemon and its packages, DIR/schemas, and SHA256SUMS
//	release manifests -o DIR                writes DIR/install.yaml and DIR/crds.yaml with the images of DIR/images.json
//	release chart -o DIR -version V         writes DIR/chart, a Helm chart with the same objects and images
//
// In: the sources of the modules, from the go command. Out: files that depend on nothing else: the same commit gives
// the same bytes. Never: a module without its licence.
package main
