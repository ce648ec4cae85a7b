package decision

// ByWhom says by whom something was done: as they are known, and as they say themselves. Empty: by nobody that is named. Else it begins
// with a space.
func ByWhom(known, claim string) string {
	switch {
	case known == "" && claim == "":
		return ""
	case known == "":
		return " by somebody (says: " + claim + ")"
	case claim == "" || claim == known:
		return " by " + known
	}
	return " by " + known + " (says: " + claim + ")"
}
