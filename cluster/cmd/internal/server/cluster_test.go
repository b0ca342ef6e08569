package server

import (
	"context"
	"regexp"
	"strings"
	"testing"
)

// What each member says of the group, in each of the forms in which clients ask.
func TestCluster_Replies(t *testing.T) {
	three := func(leads, self string) (all []Member) {
		for i, id := range []string{"a", "b", "c"} {
			port := string(rune('1' + i))
			all = append(all, Member{ID: id, Addr: "[::1]:638" + port, Peer: "[::1]:738" + port, Applied: uint64(7 + i), Leader: id == leads, Self: id == self})
		}
		return all
	}
	const nodes = "b [::1]:6382@7382 master - 0 0 0 connected 0-16383|a [::1]:6381@7381 myself,slave b 0 0 0 connected|c [::1]:6383@7383 slave b 0 0 0 connected|"
	for _, test := range []struct{ leads, self, line, reply string }{
		{"b", "a", "CLUSTER SLOTS", "*1|*5|:0|:16383|*3|$::1|:6382|$b|*3|$::1|:6381|$a|*3|$::1|:6383|$c|"},
		{"b", "a", "cluster nodes", "$" + nodes + "|"},
		{"b", "a", "CLUSTER MYID", "$a|"},
		{"b", "a", "CLUSTER KEYSLOT foo", ":12182|"},
		{"b", "a", "CLUSTER KEYSLOT {foo}bar{x}", ":12182|"},
		{"b", "a", "CLUSTER KEYSLOT {}", ":15257|"},
		{"b", "a", "CLUSTER INFO", "$cluster_enabled:1|cluster_state:ok|cluster_slots_assigned:16384|cluster_slots_ok:16384|cluster_known_nodes:3|cluster_size:1||"},
		{"b", "a", "ROLE", "*5|$slave|$::1|:6382|$connected|:7|"},
		{"b", "b", "ROLE", "*3|$master|:8|*2|*3|$::1|$6381|$7|*3|$::1|$6383|$9|"},
		{"", "a", "ROLE", "*5|$slave|$|:0|$connect|:7|"},
		{"", "a", "CLUSTER NODES", "-CLUSTERDOWN no member leads the group at the moment|"},
		{"", "a", "CLUSTER SHARDS", "-CLUSTERDOWN no member leads the group at the moment|"},
		{"", "a", "CLUSTER MYID", "$a|"},
		{"", "a", "CLUSTER INFO", "$cluster_enabled:1|cluster_state:fail|cluster_slots_assigned:16384|cluster_slots_ok:16384|cluster_known_nodes:3|cluster_size:1||"},
		{"b", "a", "CLUSTER SLOTS x", "-ERR unknown subcommand or wrong number of arguments for 'SLOTS'. There are CLUSTER SLOTS, SHARDS, NODES, MYID, INFO and KEYSLOT|"},
		{"alone", "", "CLUSTER SLOTS", "-ERR This instance has cluster support disabled|"},
		{"alone", "", "CLUSTER KEYSLOT a", "-ERR This instance has cluster support disabled|"},
		{"alone", "", "READONLY", "-ERR This instance has cluster support disabled|"},
		{"alone", "", "ROLE", "*3|$master|:0|*0|"},
	} {
		s, _ := setup(t, func(c *Config) {
			c.Leads = func() bool { return test.leads == test.self }
			c.Members = func(context.Context) []Member { return three(test.leads, test.self) }
			if test.leads == "alone" {
				c.Leads, c.Members = nil, nil
			}
		})
		got := s.newClient().say(strings.Fields(test.line)...)
		if got = withoutLengths(got); got != test.reply {
			t.Errorf("%s of %s, with leader %s: %q, want %q", test.line, test.self, test.leads, got, test.reply)
		}
		hello := s.newClient().say("HELLO", "2")
		mode, role := "cluster", "replica"
		if test.leads == "alone" {
			mode = "standalone"
		}
		if test.leads == test.self || test.leads == "alone" {
			role = "master"
		}
		if !strings.Contains(hello, "\r\n"+mode+"\r\n") || !strings.Contains(hello, "\r\n"+role+"\r\n") {
			t.Errorf("HELLO of %s, with leader %s: %q", test.self, test.leads, hello)
		}
	}
}

// withoutLengths returns a reply with | for ends of lines, and without the lengths of strings.
func withoutLengths(reply string) string {
	reply = regexp.MustCompile(`\$\d+\r\n`).ReplaceAllString(reply, "$$")
	return strings.NewReplacer("\r\n", "|", "\n", "|").Replace(reply)
}
