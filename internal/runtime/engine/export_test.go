package engine

// Derive is derive, for tests that foresee the ids of rows.
var Derive = derive

// UnknownText is what a model reads of a call whose outcome nobody can tell.
const UnknownText = unknownText
