// Command release checks the licences of the modules that the binaries link, and creates the files of a release: the
// notices of third parties and a bill of materials for each binary, images, the manifests and the Helm chart that
// install them, archives and packages, and what package managers read.
//
//	release licences                        fails where a module has no licence that is allowed
//	release files -o DIR -version V         writes DIR/BINARY.notices.txt and DIR/BINARY.cdx.json
//	release images -o DIR -version V        writes DIR/images, an OCI layout, and DIR/images.json; with -push also to a registry
//	release cli -o DIR -version V           writes the CLI for each laptop alone, and SHA256SUMS
//	release pins -o DIR -key KEY            pins the release in DIR in the files of the repository that jobs of CI run
//	release all -o DIR -version V           writes all of these, the CLI for each laptop, archives and packages of the programs, DIR/schemas, and SHA256SUMS
//	release manifests -o DIR                writes DIR/install.yaml and DIR/crds.yaml with the images of DIR/images.json
//	release chart -o DIR -version V         writes DIR/chart, a Helm chart with the same objects and images
//
// In: the sources of the modules, from the go command. Out: files that depend on nothing else: the same commit gives
// the same bytes. Never: a module without its licence.
package main
