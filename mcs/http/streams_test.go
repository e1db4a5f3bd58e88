package http

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestOneSourceNeverHasAllStreams(t *testing.T) {
	s := &Streams{Total: 8}
	begin := func(address string) (end func(), got int) {
		for {
			e, ok := s.Begin(netip.MustParseAddr(address))
			if !ok {
				return end, got
			}
			end, got = e, got+1
		}
	}
	end, greedy := begin("192.0.2.1")
	_, second := begin("192.0.2.2")
	_, third := begin("2001:db8::1")
	_, neighbour := begin("2001:db8::2")
	if got := fmt.Sprint(greedy, second, third, neighbour); got != "4 2 1 0" {
		t.Errorf("they have %s", got)
	}
	end()
	if _, again := begin("192.0.2.3"); again != 1 {
		t.Errorf("after one ended, %d begin", again)
	}
}
