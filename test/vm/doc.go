// Package vm tells the life of a whole machine, once, in a virtual one: a real kernel, an initramfs with Ignition that
// asks our server for its config, an OSTree host below, our daemon on it, and the embedded control plane that follows a
// git repository. Commits are pushed; what the machine does about them is looked at by SSH and on its Node.
//
//	test/vm/run                                       what make test-vm does
//	test/vm/run --transcript dist/vm-transcript.md    and writes down what was seen
//
// The machine is emulated (QEMU's TCG), so it runs wherever root is, without KVM, and takes its time. Its boot loader
// is this test: it reads the boot entries from the disk, as a boot loader does, and starts the newest. Its network is
// QEMU's own and reaches three ports of the test: the API server, the Ignition server and the store of OS images.
//
//	image/boot       kernel and initramfs, by the image's own dracut
//	image/disk       OSTree commits v1 and v2, and a disk on which v1 is deployed
//	image/files      what a machine has beside Debian's packages: units of the daemon and of the kubelet's stand-in
//	join             gets the kubelet's identity by a bootstrap token, as a kubelet does
//	config           the first commit of the repository
//
// In: BUNSEN_VM=1, root, bin/ as made by make, the machine's own apt configuration. Out: tests, one for each step of
// the life, and the transcript. Never: a skip where a part is missing; an address beyond loopback but for Debian's
// packages.
package vm
