// Package faults has groups of three and five processes, and makes everything around them fail: they
// are killed, stopped and continued, their disks fail and fill up, their connections are cut in both
// directions or in one, members join and leave, directories are lost, and clocks differ by hours. Clients
// write and read meanwhile. No acknowledged write may be lost, all answers must fit one order of the operations,
// no process may panic, and at the end all members must hold the same keys and values.
//
// The members are processes of the test binary (TestMember_Child), which open a cluster.Node on a disk
// that fails on command (disk_test.go) and serve operations and commands over a socket in the file
// system (member_test.go), which no partition cuts off. The test's process has the clients
// (clients_test.go, transactions_test.go), the history of what they saw (history_test.go), the network between the
// members (proxy_test.go) and the nemesis, which
// chooses what fails (nemesis_test.go). No check depends on a clock: the history is ordered by a counter.
package faults
