// Package harness is what the tests of the whole store share. It is for tests only.
//
// A test of the whole store runs programs: lists of steps, drawn at random or written down. Each
// step is done twice, by a store and by the Model, which is a sorted list of entries, and the two
// must give the same answer. What differs from test to test is what happens meanwhile: the options
// change, the power is cut at some operation of the disk, operations of the disk fail, files are
// damaged, several clients work at once, the process is killed.
//
//	State      the entries of a store at one moment; it never changes
//	Model      what a store must hold: its State now, and the commits that a crash may take back
//	Claim      the same as data: which states may be found after a crash
//	Operation  a kind of step: how its arguments are drawn, and what it does
//	Source     what arguments are drawn from: keys, values, ranges
//	Stream     the writes of one writer of several, which other processes draw too
//	Draw       how each field of the options is drawn
//	Life       a store beside its model, and the steps so far
//	Crashes    a Life whose disk is crashed at its operations
//	Faults     a Life whose disk fails
//	DrawStorm  how a disk fails for a while
//
// To have a new option tested everywhere, add a row to optionDraws (options.go); a test fails as
// long as it is missing. To have a new operation tested everywhere, add a row to Operations
// (operations.go), and to the Store interface (store.go) if it is a method that is not there yet.
//
// A program that fails is shortened, and printed with the line that runs it again.
package harness
