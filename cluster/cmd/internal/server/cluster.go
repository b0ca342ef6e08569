package server

import (
	"net"
	"slices"
	"strconv"

	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// A Member is a member of the group as clients find it.
type Member struct {
	ID     string
	Addr   string // HOST:PORT for clients
	Leader bool
}

// slots is how many slots Redis Cluster has keys in. All are the leader's here.
const slots = 16384

// cluster is CLUSTER, as far as clients of a Redis Cluster use it to find the members: the leader is the master of all slots, and
// the others are its replicas. So such a client needs the address of one member only, and finds the next leader by itself.
//
// SLOTS and SHARDS are the two forms in which clients ask, old and new. Both list the same members.
// Other subcommands would make a client believe that it can move slots.
func (c *client) cluster(args [][]byte) {
	switch {
	case c.s.config.Members == nil:
		c.Error("ERR This instance has cluster support disabled")
	case resp.Is(args[0], "SLOTS") && len(args) == 1:
		if members := c.membersLeaderFirst(); members != nil {
			c.Array(1)
			c.Array(2 + len(members))
			c.Integer(0)
			c.Integer(slots - 1)
			for _, m := range members {
				host, port := m.split()
				c.Array(3)
				c.BulkString(host)
				c.Integer(port)
				c.BulkString(m.ID)
			}
		}
	case resp.Is(args[0], "SHARDS") && len(args) == 1:
		if members := c.membersLeaderFirst(); members != nil {
			c.Array(1)
			c.Map(2)
			c.BulkString("slots")
			c.Array(2)
			c.Integer(0)
			c.Integer(slots - 1)
			c.BulkString("nodes")
			c.Array(len(members))
			for i, m := range members {
				c.node(m, i == 0)
			}
		}
	default:
		c.Error("ERR unknown subcommand or wrong number of arguments for '" + printable(args[0]) + "'. There are CLUSTER SLOTS and CLUSTER SHARDS")
	}
}

// node replies with a member as CLUSTER SHARDS shows it.
//
// The six fields are those that clients need to connect. Redis has more, such as the replication
// offset.
func (c *client) node(m Member, master bool) {
	host, port := m.split()
	role := "replica"
	if master {
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

// membersLeaderFirst returns the members that answer, the leader first. It returns nil after it has replied that none leads.
//
// Members that do not answer are left out: a client would try them first and wait.
func (c *client) membersLeaderFirst() []Member {
	ctx, cancel := c.s.within()
	defer cancel()
	members := c.s.config.Members(ctx)
	i := slices.IndexFunc(members, func(m Member) bool { return m.Leader })
	if i < 0 {
		c.Error("CLUSTERDOWN no member leads the group at the moment")
		return nil
	}
	leader := members[i]
	return slices.Insert(slices.Delete(members, i, i+1), 0, leader)
}

// split returns the host and the port of a member.
//
// Clients expect them apart, and the port as a number.
func (m Member) split() (host string, port int64) {
	host, text, err := net.SplitHostPort(m.Addr)
	if err != nil {
		return m.Addr, 0
	}
	port, _ = strconv.ParseInt(text, 10, 64)
	return host, port
}

// readAnywhere is READONLY and READWRITE, which clients of a Redis Cluster send before they read from a replica: all members
// answer reads here.
func (c *client) readAnywhere([][]byte) { c.OK() }
