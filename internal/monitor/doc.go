// Package monitor names what a store counts, for systems that watch programs: one list for the
// text page of package debug, and for the modules under integrations, so that one dashboard
// fits all of them.
package monitor
