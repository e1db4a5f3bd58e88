package vmcheck

// IsVirtualWorld tells that it is not.
func IsVirtualWorld() bool { return false }
