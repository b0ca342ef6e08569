package server

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// A Member is a member of the group as clients find it.
type Member struct {
	ID           string
	Addr, Peer   string // HOST:PORT, for clients and for other members
	Applied      uint64 // the last entry of the log that its state has
	Leader, Self bool
}

// slots is how many slots Redis Cluster has keys in. All are the leader's here.
const slots = 16384

// leads reports whether this server is the master in the eyes of clients.
func (s *Server) leads() bool { return s.config.Leads == nil || s.config.Leads() }

// modeAndRole returns in the words of Redis whether this server is one of several, and which it is now.
func (s *Server) modeAndRole() (mode, role string) {
	mode, role = "standalone", "master"
	if s.config.Members != nil {
		mode = "cluster"
	}
	if !s.leads() {
		role = "replica"
	}
	return mode, role
}

// cluster is CLUSTER, as far as clients of a Redis Cluster use it to find the members: the leader is the master of all slots, and
// the others are its replicas. So such a client needs the address of one member only, and finds the next leader by itself.
//
// SLOTS, SHARDS and NODES are the three forms in which clients ask. All list the same members.
// Other subcommands would make a client believe that it can move slots.
func (c *client) cluster(args [][]byte) {
	what := strings.ToUpper(string(args[0]))
	if c.s.config.Members == nil {
		c.Error(noCluster)
		return
	}
	switch {
	case what == "KEYSLOT" && len(args) == 2:
		c.Integer(int64(slotOf(args[1])))
		return
	case !slices.Contains([]string{"SLOTS", "SHARDS", "NODES", "MYID", "INFO"}, what) || len(args) > 1:
		c.Error("ERR unknown subcommand or wrong number of arguments for '" + printable(args[0]) + "'. There are CLUSTER SLOTS, SHARDS, NODES, MYID, INFO and KEYSLOT")
		return
	}
	members := c.membersLeaderFirst()
	led := len(members) > 0 && members[0].Leader
	switch {
	case what == "INFO":
		c.clusterInfo(len(members), led)
	case what == "MYID" && len(members) > 0:
		i := max(0, slices.IndexFunc(members, func(m Member) bool { return m.Self }))
		c.BulkString(members[i].ID)
	case !led:
		c.Error("CLUSTERDOWN no member leads the group at the moment")
	case what == "NODES":
		c.clusterNodes(members)
	case what == "SHARDS":
		c.clusterShards(members)
	default:
		c.clusterSlots(members)
	}
}

// noCluster is Redis's reply when it is no cluster, by which clients find that out.
const noCluster = "ERR This instance has cluster support disabled"

func (c *client) clusterSlots(members []Member) {
	c.Array(1)
	c.Array(2 + len(members))
	c.Integer(0)
	c.Integer(slots - 1)
	for _, m := range members {
		host, port := split(m.Addr)
		c.Array(3)
		c.BulkString(host)
		c.Integer(port)
		c.BulkString(m.ID)
	}
}

// clusterShards replies with the six fields of each member that clients need to connect. Redis has more.
func (c *client) clusterShards(members []Member) {
	c.Array(1)
	c.Map(2)
	c.BulkString("slots")
	c.Array(2)
	c.Integer(0)
	c.Integer(slots - 1)
	c.BulkString("nodes")
	c.Array(len(members))
	for _, m := range members {
		host, port := split(m.Addr)
		role := "replica"
		if m.Leader {
			role = "master"
		}
		c.Map(6)
		for _, line := range [][2]string{{"id", m.ID}, {"ip", host}, {"endpoint", host}, {"role", role}, {"health", "online"}} {
			c.BulkString(line[0])
			c.BulkString(line[1])
		}
		c.BulkString("port")
		c.Integer(port)
	}
}

// clusterNodes replies with a line for each member. The zeros are times and epochs, which no client needs.
func (c *client) clusterNodes(members []Member) {
	var text strings.Builder
	for _, m := range members {
		role := "slave " + members[0].ID
		if m.Leader {
			role = "master -"
		}
		if m.Self {
			role = "myself," + role
		}
		_, peer := split(m.Peer)
		fmt.Fprintf(&text, "%s %s@%d %s 0 0 0 connected", m.ID, m.Addr, peer, role)
		if m.Leader {
			fmt.Fprintf(&text, " 0-%d", slots-1)
		}
		text.WriteByte('\n')
	}
	c.BulkString(text.String())
}

func (c *client) clusterInfo(members int, led bool) {
	state := "ok"
	if !led {
		state = "fail"
	}
	c.BulkString(fmt.Sprintf("cluster_enabled:1\r\ncluster_state:%s\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%[2]d\r\ncluster_known_nodes:%d\r\ncluster_size:1\r\n",
		state, slots, members))
}

// role is ROLE: a master with its replicas, or a replica with its master. An offset is the last entry of the log that a state has.
func (c *client) role([][]byte) {
	var members []Member
	if c.s.config.Members != nil {
		members = c.membersLeaderFirst()
	}
	self := Member{Leader: true}
	if i := slices.IndexFunc(members, func(m Member) bool { return m.Self }); i >= 0 {
		self = members[i]
		members = slices.Delete(members, i, i+1)
	} else if c.s.config.Members != nil {
		self.Leader = false
	}
	if self.Leader {
		c.Array(3)
		c.BulkString("master")
		c.Integer(int64(self.Applied))
		c.Array(len(members))
		for _, m := range members {
			host, port := split(m.Addr)
			c.Array(3)
			for _, text := range []string{host, strconv.FormatInt(port, 10), strconv.FormatUint(m.Applied, 10)} {
				c.BulkString(text)
			}
		}
		return
	}
	host, port, state := "", int64(0), "connect" // it looks for one
	if len(members) > 0 && members[0].Leader {
		host, port = split(members[0].Addr)
		state = "connected"
	}
	c.Array(5)
	c.BulkString("slave")
	c.BulkString(host)
	c.Integer(port)
	c.BulkString(state)
	c.Integer(int64(self.Applied))
}

// membersLeaderFirst returns the members that answer, the leader first, if one leads.
//
// Members that do not answer are left out: a client would try them first and wait.
func (c *client) membersLeaderFirst() []Member {
	members := c.s.config.Members(c.s.within())
	slices.SortStableFunc(members, func(a, b Member) int {
		switch {
		case a.Leader == b.Leader:
			return 0
		case a.Leader:
			return -1
		}
		return 1
	})
	return members
}

// split returns the host and the port of an address. Clients expect them apart, and the port as a number.
func split(addr string) (host string, port int64) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, 0
	}
	port, _ = strconv.ParseInt(text, 10, 64)
	return host, port
}

// slotOf returns the slot of a key: the CRC-16 of XMODEM of it, or of what it has between the first braces.
func slotOf(key []byte) uint16 {
	if _, behind, ok := bytes.Cut(key, []byte("{")); ok {
		if tag, _, ok := bytes.Cut(behind, []byte("}")); ok && len(tag) > 0 {
			key = tag
		}
	}
	sum := uint16(0)
	for _, b := range key {
		sum ^= uint16(b) << 8
		for range 8 {
			carry := sum >> 15
			sum = sum<<1 ^ carry*0x1021
		}
	}
	return sum % slots
}

// readAnywhere is READONLY and READWRITE, which clients of a Redis Cluster send before they read from a replica: all members
// answer reads here.
func (c *client) readAnywhere([][]byte) {
	if c.s.config.Members == nil {
		c.Error(noCluster)
		return
	}
	c.OK()
}
