/** The tool by which guidelines are searched; the agent sees it as `mcp__briefing__…`. */
export const SEARCH_TOOL = 'search_clinical_guidelines';
export const SEARCH_TOOL_FULL = 'mcp__briefing__search_clinical_guidelines';
