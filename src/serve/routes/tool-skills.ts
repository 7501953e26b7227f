import type { Skill } from '../../a2a/index.ts';
import type { ToolSource } from '../../mcp/types.ts';
import type { AgentModule } from '../types.ts';

/** Tools that a card names; a caller who wants all of them asks over MCP. */
const MAX_SKILLS = 100;
/** A source that is slower than this is left out of the card. */
const SKILLS_TIMEOUT_MS = 5_000;

/** The modules with their tools as skills of the card, where the card does not name its own. */
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
    // A card without them is still a card; whoever calls such a tool hears what is wrong with it.
  }
  return skills;
}
