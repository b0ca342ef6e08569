// Package filterplan decides which filters the tables of a store get. It is public
// so that it can be read: its API is not covered by the compatibility promise of
// package shale.
//
// A Policy is what the options of a store say about filters. Policy.Plan divides the
// memory for filters among the runs of a Tree. All functions are pure: they need no
// store, and the same question always has the same answer.
package filterplan
