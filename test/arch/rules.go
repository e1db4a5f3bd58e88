package arch

// Rule is one condition that the whole project must meet.
type Rule struct {
	// Name of the rule in exemptions.txt; its test is testdata/<Name>.txtar.
	Name string
	// Check is pure: it lists the violations in a repository.
	Check func(Repo) []Violation
}

// Rules are all rules, in the order of a newcomer's questions.
var Rules = []Rule{
	{"room", everyPackageHasARoom},                  // where does my code go?
	{"imports", importsFollowTheTable},              // whom may it call?
	{"shell", nobodyImportsAShell},                  // who constructs the shells?
	{"wall", theWallStands},                         // what do the processes share?
	{"std", pureRoomsStayPure},                      // may it touch the world?
	{"clock", pureRoomsTakeTheClock},                // may it ask the time?
	{"library", librariesAreNamed},                  // may it use this library?
	{"links", theDaemonStaysSmall},                  // what runs as root on every node?
	{"line-length", linesFitTheScreen},              // how long may a line be?
	{"package-doc", packagesAreDocumented},          // where is it explained?
	{"exported-doc", exportedIsDocumented},          // what does this function promise?
	{"controller-doc", controllersSayWhatTheyTouch}, // which objects does this controller touch?
	{"package-name", packagesAreNamed},              // what is it called?
	{"init", nothingRunsBeforeMain},                 // what runs before main?
	{"decides", policyAloneDecides},                 // who decides what a node does?
	{"facts", factsAreNoProse},                      // by what does a program decide?
	{"reboot", oneFunctionReboots},                  // who may reboot a node?
	{"host-path", hostPathsAreOpenedInOnePlace},     // how does the daemon open a file of its machine?
	{"listing", commitsAreListedOnce},               // what does a commit consist of?
	{"hidden-text", hiddenTextIsDefinedOnce},        // which characters may not be shown as they are?
	{"log", thereIsOneLogger},                       // how does it log?
	{"sleep", testsDoNotSleep},                      // how does a test wait?
}

// Check runs every rule on a repository.
func Check(r Repo) []Violation {
	var vs []Violation
	for _, rule := range Rules {
		vs = append(vs, rule.Check(r)...)
	}
	return sorted(vs)
}
