// Package filterplan decides which filters the tables of a store get. It is public
// so that it can be read: its API is not covered by the compatibility promise of
// package shale.
//
// FilterBits divides the memory for filters among the runs of a tree. It is a pure
// function: it needs no store, and the same question always has the same answer.
package filterplan
