import type { Skill } from '../../a2a/index.ts';
import type { ToolSource } from '../../mcp/types.ts';
import type { AgentModule } from '../types.ts';

/** How many tools a card lists; MCP lists all of them. */
const MAX_SKILLS = 100;
/** A source that needs longer than this to list its tools is omitted from the card. */
const SKILLS_TIMEOUT_MS = 5_000;

/** Adds the tools of each module as skills to its card, unless the card has skills. */
export async function withSkills(
  modules: Readonly<Record<string, AgentModule>>,
): Promise<Readonly<Record<string, AgentModule>>> {
  const described = Object.entries(modules).map(async ([name, module]) => {
    const { tools, card } = module.options ?? {};
    if (!tools || card?.skills) return [name, module] as const;
    const skills = await skillsOf(tools);
    return [
      name,
      { ...module, options: { ...module.options, card: { ...card, skills } } },
    ] as const;
  });
  return Object.fromEntries(await Promise.all(described));
}

async function skillsOf(tools: ToolSource): Promise<readonly Skill[]> {
  const skills: Skill[] = [];
  try {
    for await (const tool of tools.listTools({ signal: AbortSignal.timeout(SKILLS_TIMEOUT_MS) })) {
      const { name, title, description = name } = tool;
      const shown = typeof title === 'string' ? title : name;
      skills.push({ id: name, name: shown, description, tags: ['tool'] });
      if (skills.length === MAX_SKILLS) break;
    }
  } catch {
    // A card without skills is still valid, and a caller of such a tool gets the error.
  }
  return skills;
}
