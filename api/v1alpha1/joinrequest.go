package v1alpha1

// Reasons of the conditions Approved and Denied that the controller sets on the certificate request of a new machine.
const (
	// ReasonJoinApproved means that the request is the first of its bootstrap token, or repeats the first.
	ReasonJoinApproved = "BunsenApproved"
	// ReasonJoinInvalid means that the request is not a kubelet's request for its client certificate.
	ReasonJoinInvalid = "BunsenInvalidRequest"
	// ReasonJoinPools means that the bootstrap token names two pools.
	ReasonJoinPools = "BunsenSeveralPools"
	// ReasonJoinOtherNode means that the bootstrap token is for a node with another name.
	ReasonJoinOtherNode = "BunsenOtherNode"
	// ReasonJoinTokenUsed means that the bootstrap token admitted another machine.
	ReasonJoinTokenUsed = "BunsenTokenUsed"
	// ReasonJoinNodeExists means that a Node of that name exists, and the bootstrap token is not for that node.
	ReasonJoinNodeExists = "BunsenNodeExists"
	// ReasonJoinControlPlane means that the existing Node of that name belongs to the control plane.
	ReasonJoinControlPlane = "BunsenControlPlaneNode"
	// ReasonJoinNameReserved means that a provisioning token reserves that name, and the bootstrap token is not for
	// that node.
	ReasonJoinNameReserved = "BunsenNameReserved"
	// ReasonJoinNameTaken means that the controller approved another machine with that name, which has no Node yet.
	ReasonJoinNameTaken = "BunsenNameTaken"
	// ReasonJoinTooLate means that the request waited too long for the controller.
	ReasonJoinTooLate = "BunsenTooLate"
)
