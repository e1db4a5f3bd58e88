package git

import "golang.org/x/sys/windows"

// trustedOwners are the user of this process, the administrators and the system, as ownerOf names them. What an
// administrator creates belongs to the group of administrators.
func trustedOwners() ([]string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, err
	}
	all := []string{user.User.Sid.String()}
	for _, known := range []windows.WELL_KNOWN_SID_TYPE{
		windows.WinBuiltinAdministratorsSid, windows.WinLocalSystemSid,
	} {
		sid, err := windows.CreateWellKnownSid(known)
		if err != nil {
			return nil, err
		}
		all = append(all, sid.String())
	}
	return all, nil
}

// ownerOf returns the user to whom a file belongs.
func ownerOf(name string) (string, error) {
	security, err := windows.GetNamedSecurityInfo(name, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return "", err
	}
	owner, _, err := security.Owner()
	if err != nil {
		return "", err
	}
	return owner.String(), nil
}
