import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

// Checks the form of the files: the service that runs them is not available to the tests.
const yaml = await peer('yaml');
const FOLDER = new URL('../../.github/', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, FOLDER), 'utf8');
const { engines, scripts } = JSON.parse(read('../package.json')) as {
  readonly engines: { readonly node: string };
  readonly scripts: Readonly<Record<string, string>>;
};

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly env?: Readonly<Record<string, unknown>>;
}
interface Job {
  readonly 'runs-on': string;
  readonly 'timeout-minutes'?: number;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly strategy?: {
    readonly matrix: {
      readonly os: readonly string[];
      readonly node: readonly number[];
      readonly include: readonly { readonly os: string }[];
    };
  };
  readonly steps: readonly Step[];
}
interface Workflow {
  readonly name: string;
  readonly on: object;
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}
interface IssueForm {
  readonly name: string;
  readonly description: string;
  readonly body: readonly {
    readonly type: string;
    readonly id: string;
    readonly attributes: object;
  }[];
}

suite('workflows', yaml.reason, () => {
  const parse = async <T>(path: string): Promise<T> => {
    const { parse: parseYaml } = (await yaml.import('yaml')) as {
      readonly parse: (text: string) => unknown;
    };
    return parseYaml(read(path)) as T;
  };
  const workflow = (name: string): Promise<Workflow> => parse(`workflows/${name}`);

  test.each(readdirSync(new URL('workflows/', FOLDER)))(
    '%s may only read by default, ends in time, and runs existing scripts',
    async (file) => {
      const { name, on, permissions, jobs } = await workflow(file);
      expect(name).not.toBe('');
      expect(Object.keys(on).length).toBeGreaterThan(0);
      expect(permissions).toEqual({ contents: 'read' });
      for (const job of Object.values(jobs)) {
        expect(job['timeout-minutes']).toBeGreaterThan(0);
        expect(job.steps[0]?.uses).toMatch(/^actions\/checkout@v\d+$/);
        for (const { uses, run } of job.steps) {
          expect((uses === undefined) !== (run === undefined)).toBe(true);
          if (uses !== undefined) expect(uses).toMatch(/^[\w-]+(?:\/[\w-]+)+@v\d+$/);
          for (const [, script = ''] of (run ?? '').matchAll(/npm run ([\w:-]+)/g))
            expect(scripts).toHaveProperty([script]);
        }
      }
    },
  );

  test('CI runs npm test on Linux, macOS and Windows, and on every Node from the oldest', async () => {
    const { test: job } = (await workflow('ci.yml')).jobs;
    const { os, node, include } = job?.strategy?.matrix ?? { os: [], node: [], include: [] };
    expect([...os, ...include.map((each) => each.os)]).toEqual([
      'ubuntu-latest',
      'macos-latest',
      'windows-latest',
    ]);
    expect(node).toEqual([20, 22, 24, 26]);
    expect(engines.node).toBe(`>=${node[0]}.19`);
    expect(job?.steps.map(({ run }) => run)).toContain('npm test');
  });

  test('a release is signed with its provenance', async () => {
    const { release } = (await workflow('release.yml')).jobs;
    expect(release?.permissions).toMatchObject({ 'id-token': 'write' });
    const publish = release?.steps.find(({ uses }) => uses?.startsWith('changesets/action@'));
    expect(publish?.env).toMatchObject({ NPM_CONFIG_PROVENANCE: true });
  });

  test.each(['bug', 'feature'])('the issue form %s has fields with ids', async (name) => {
    const form = await parse<IssueForm>(`ISSUE_TEMPLATE/${name}.yml`);
    expect(form).toMatchObject({
      name: expect.any(String) as string,
      description: expect.any(String) as string,
    });
    const ids = form.body.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { type } of form.body) expect(['textarea', 'input', 'dropdown']).toContain(type);
  });
});
