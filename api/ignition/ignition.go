package ignition

import (
	"github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// The parts of a config, as Ignition names them.
type (
	Clevis             = types.Clevis
	Config             = types.Config
	Device             = types.Device
	Directory          = types.Directory
	DirectoryEmbedded1 = types.DirectoryEmbedded1
	Disk               = types.Disk
	Dropin             = types.Dropin
	File               = types.File
	FileEmbedded1      = types.FileEmbedded1
	Filesystem         = types.Filesystem
	FilesystemOption   = types.FilesystemOption
	Group              = types.Group
	HTTPHeaders        = types.HTTPHeaders
	Ignition           = types.Ignition
	IgnitionConfig     = types.IgnitionConfig
	KernelArgument     = types.KernelArgument
	KernelArguments    = types.KernelArguments
	Link               = types.Link
	LinkEmbedded1      = types.LinkEmbedded1
	Luks               = types.Luks
	MountOption        = types.MountOption
	NoProxyItem        = types.NoProxyItem
	Node               = types.Node
	NodeGroup          = types.NodeGroup
	NodeUser           = types.NodeUser
	OpenOption         = types.OpenOption
	Partition          = types.Partition
	Passwd             = types.Passwd
	PasswdGroup        = types.PasswdGroup
	PasswdUser         = types.PasswdUser
	Proxy              = types.Proxy
	Raid               = types.Raid
	Resource           = types.Resource
	SSHAuthorizedKey   = types.SSHAuthorizedKey
	Storage            = types.Storage
	Systemd            = types.Systemd
	Timeouts           = types.Timeouts
	Unit               = types.Unit
	Verification       = types.Verification
)

// These functions read a config of this version, read one of this or an earlier version, and merge two of them.
var (
	Parse                  = v3_5.Parse
	ParseCompatibleVersion = v3_5.ParseCompatibleVersion
	Merge                  = v3_5.Merge
)
