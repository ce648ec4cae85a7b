package engine

// Derive is derive, for tests that foresee the ids of rows.
var Derive = derive
