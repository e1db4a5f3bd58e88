package cli

// The flag of the commands that check a repository without its cluster.
const (
	LargeFilesFlag  = "large-files"
	LargeFilesUsage = "allow files that are too large for a MachineConfig: the controller has --content-registry, or " +
		"machine-config-server reads the repository itself"
)
