// Package chain is about who owns a store in a bucket, and what the store is. Its steps form a chain, to which only the
// owner appends (chain.go): a writer becomes the owner by a claim, and fences the one before (claim.go). The segments of its
// logs form a list (segmentlist.go, segmentobject.go). Pins keep a step from being deleted (pins.go), and needs.go says what
// a step needs. docs/REMOTE.md, sections 10 and 13, has the protocol and why it is right.
package chain
