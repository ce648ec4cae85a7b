// Package attack owns the attacks on a whole Actlog: its tests start the real program with keys, agents, a scripted
// model and hostile servers, repositories and clients, and check that nothing that the runtime does changes.
//
// The tests have the build tag attack: go test -tags attack ./internal/testkit/attack. With -short the random ones are
// few.
//
// Each kind of attack has a file. A play starts a house ([open]), brings runs to a point (house.start, run.reach),
// attacks, and compares what the tools of the house were really asked to do, its ledger, with an undisturbed run.
package attack
