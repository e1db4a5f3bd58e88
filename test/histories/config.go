package histories

import "fmt"

// config is a rendered config as a machine meets it.
type config struct {
	name, pool string
	// commit that it was first rendered from.
	commit int
	needs  need
	ails   ail
	// refers: it refers to secrets. turns is what other secrets of the same config ask of a node.
	refers bool
	turns  need
	// files: it has remote files.
	files bool
	// on are the machines that the ail befalls, as bits by their numbers.
	on uint64
}

// need is what taking a config asks of a node. A change between two configs needs what either does.
type need int

const (
	nothing need = iota
	drained
	rebooted
)

// ail is how a config fails.
type ail int

const (
	// sound: it does not.
	sound ail = iota
	// early: its steps fail on a node that needed no drain for them; the daemon goes back and tries again.
	early
	// late: they fail on a drained node; the daemon goes back and tries again.
	late
	// flaky: they fail on a drained node twice, then work.
	flaky
	// refused: a running node cannot take it; nothing is done.
	refused
	// rejected: the machine does not live with it after the reboot, goes back by itself and does not try again.
	rejected
	// dead: the machine does not come back from the reboot.
	dead
	// doomed: the machine dies some time after it said that all was well.
	doomed
)

// ailNames are what a story says of them.
var ailNames = map[ail]string{
	sound: "sound", early: "fails in place", late: "fails once drained", flaky: "fails twice, then works",
	refused: "is refused by running nodes", rejected: "reboots and is rejected",
	dead: "does not come back from its reboot", doomed: "dies in it after it is done",
}

var needNames = map[need]string{nothing: "in place", drained: "needs a drain", rebooted: "needs a reboot"}

func (c *config) hits(m *machine) bool { return c.ails != sound && c.on>>uint(m.number)&1 == 1 }

func (c *config) String() string {
	text := fmt.Sprintf("%s (%s", c.name, needNames[c.needs])
	if c.ails != sound {
		text += "; " + ailNames[c.ails] + " on"
		for i := range maxMachines {
			if c.on>>uint(i)&1 == 1 {
				text += " " + machineName(i)
			}
		}
	}
	return text + ")"
}
