// The last Ignition of spec 2, built for the first boots of test/ignition. Its own go.mod names no versions: those of what it
// needs are the oldest that still can be had. Two libraries of its VMware provider cannot; absent/ stands in for them.
module github.com/bunsen-os/bunsen/test/ignition/spec2

go 1.26.0

require (
	github.com/ajeddeloh/go-json v0.0.0-20200220154158-5ae607161559 // indirect
	github.com/aws/aws-sdk-go v1.55.8 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd v0.0.0-20181031085051-9002847aa142 // indirect
	github.com/coreos/ignition v0.35.0 // indirect
	github.com/godbus/dbus v0.0.0-20181101234600-2ff6f7ffd60f // indirect
	github.com/jmespath/go-jmespath v0.4.0 // indirect
	github.com/pin/tftp v2.1.0+incompatible // indirect
	github.com/sigma/vmw-guestinfo v0.0.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/vincent-petithory/dataurl v1.0.0 // indirect
	github.com/vmware/vmw-ovflib v0.0.0 // indirect
	go4.org v0.0.0-20260112195520-a5071408f32f // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/vmware/vmw-ovflib => ./absent/ovf

replace github.com/sigma/vmw-guestinfo => ./absent/guestinfo

tool github.com/coreos/ignition/internal
