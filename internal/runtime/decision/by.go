package decision

// ByWhom says by whom something was done: who was authenticated, and who they say they are. It is empty if neither is
// known, and begins with a space otherwise.
func ByWhom(known, claim string) string {
	switch {
	case known == "" && claim == "":
		return ""
	case known == "":
		return " by " + claim + " (not verified)"
	case claim == "" || claim == known:
		return " by " + known
	}
	return " by " + known + " (says: " + claim + ")"
}
