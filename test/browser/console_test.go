package browser

import "testing"

// TestConsole shows the console of one cluster in Chromium. The sentences build on each other: later pages show what
// earlier ones caused.
func TestConsole(t *testing.T) {
	w := newWorld(t)
	w.silence(t)
	w.quiet = w.signedIn(t, "/search")
	for _, s := range []struct {
		sentence string
		test     func(*world, *testing.T)
	}{
		{"each pool gets its first config", (*world).eachPoolGetsItsFirstConfig},
		{"a push moves cells without a reload", (*world).aPushMovesCellsWithoutAReload},
		{"a halted rollout is seen", (*world).aHaltedRolloutIsSeen},
		{"a blocked drain is seen", (*world).aBlockedDrainIsSeen},
		{"drift is seen", (*world).driftIsSeen},
		{"a refused commit is seen", (*world).aRefusedCommitIsSeen},
		{"a user pauses a pool and resumes it", (*world).aUserPausesAPoolAndResumesIt},
		{"the keyboard reaches everything", (*world).theKeyboardReachesEverything},
		{"the focus stays when a region is replaced", (*world).theFocusStaysWhenARegionIsReplaced},
		{"the keyboard operates the console", (*world).theKeyboardOperatesTheConsole},
		{"a finger reads a node before it opens it", (*world).aFingerReadsANodeBeforeItOpensIt},
		{"a user signs in by keyboard", (*world).aUserSignsInByKeyboard},
		{"a user without a right reads which role is missing", (*world).aUserWithoutARightReadsWhichRoleIsMissing},
		{"every page is accessible", (*world).everyPageIsAccessible},
		{"signing in is accessible", (*world).signingInIsAccessible},
		{"a page on paper has its text", (*world).aPageOnPaperHasItsText},
		{"the back button and deep links work", (*world).theBackButtonAndDeepLinksWork},
		{"a lost stream is said", (*world).aLostStreamIsSaid},
		{"a page without changes stays connected", (*world).aPageWithoutChangesStaysConnected},
		{"a silent stream is noticed", (*world).aSilentStreamIsNoticed},
		{"many pages stay live", (*world).manyPagesStayLive},
		{"hostile texts run nothing", (*world).hostileTextsRunNothing},
	} {
		if !t.Run(s.sentence, func(t *testing.T) { s.test(w, t) }) && t.Failed() {
			t.Logf("later pages may lack what %q causes", s.sentence)
		}
	}
}
