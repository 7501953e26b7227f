import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { serveCommand } from '../../src/cli/commands/serve.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

// Checks the files only: the tests start no container engine and no cluster.
const yaml = await peer('yaml');

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: Readonly<Record<string, unknown>>;
}

interface Container {
  readonly args: readonly string[];
  readonly ports: readonly { readonly name: string }[];
  readonly readinessProbe: { readonly httpGet: { readonly path: string; readonly port: string } };
  readonly livenessProbe: { readonly httpGet: { readonly path: string; readonly port: string } };
}

const read = (file: string): string =>
  readFileSync(new URL(`../../deploy/${file}`, import.meta.url), 'utf8');

/** The flags of a command line; the command must know each of them. */
function expectKnownFlags(text: string): void {
  const flags = [...text.matchAll(/--([a-z-]+)/g)].map(([, flag]) => flag);
  expect(flags.length).toBeGreaterThan(3);
  expect(flags.filter((flag) => !Object.hasOwn(serveCommand.options ?? {}, flag ?? ''))).toEqual(
    [],
  );
}

/** No secret on a command line: each is read from a file. */
function expectSecretsInFiles(text: string): void {
  expect(text).toMatch(/--auth=bearer:@\/run\/secrets\//);
  expect(text).toMatch(/--store=@\/run\/secrets\//);
}

suite('deploy', yaml.reason, () => {
  test('compose.yaml refers only to its own services and to existing flags', async () => {
    const { parse } = (await yaml.import('yaml')) as {
      readonly parse: (text: string, options: object) => unknown;
    };
    const compose = parse(read('compose.yaml'), { merge: true }) as {
      readonly services: Record<
        string,
        {
          readonly secrets?: readonly string[];
          readonly command?: readonly string[];
          readonly depends_on?: readonly string[] | object;
          readonly stop_grace_period?: string;
        }
      >;
      readonly secrets: object;
    };
    const { services, secrets } = compose;
    for (const service of Object.values(services)) {
      for (const secret of service.secrets ?? []) expect(secrets).toHaveProperty(secret);
      const needed = service.depends_on ?? [];
      for (const name of Array.isArray(needed) ? (needed as string[]) : Object.keys(needed))
        expect(services).toHaveProperty(name);
    }
    for (const name of ['front', 'worker']) {
      expectKnownFlags(services[name]?.command?.join(' ') ?? '');
      expectSecretsInFiles(services[name]?.command?.join(' ') ?? '');
      expect(services[name]?.stop_grace_period).toBe('30s');
    }
  });

  test('the Kubernetes manifests select their own pods and probe existing routes', async () => {
    const { parseAllDocuments } = (await yaml.import('yaml')) as {
      readonly parseAllDocuments: (
        text: string,
      ) => { readonly errors: unknown[]; toJS(): Manifest }[];
    };
    const documents = parseAllDocuments(read('kubernetes/duolane.yaml'));
    expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
    const manifests = documents.map((document) => document.toJS());
    expect(manifests.map(({ kind }) => kind)).toEqual([
      'Deployment',
      'Deployment',
      'Service',
      'Ingress',
      'PodDisruptionBudget',
    ]);
    for (const { kind, apiVersion, metadata, spec } of manifests) {
      expect(apiVersion).toMatch(/^(v1|[a-z.0-9]+\/v1)$/);
      expect(metadata.name).toMatch(/^duolane/);
      if (kind !== 'Deployment') continue;
      const { selector, template } = spec as {
        selector: { matchLabels: object };
        template: {
          metadata: { labels: object };
          spec: { containers: readonly Container[]; terminationGracePeriodSeconds: number };
        };
      };
      expect(template.metadata.labels).toEqual(selector.matchLabels);
      expect(template.spec.terminationGracePeriodSeconds).toBeGreaterThan(5);
      for (const container of template.spec.containers) {
        expectKnownFlags(container.args.join(' '));
        expectSecretsInFiles(container.args.join(' '));
        const { readinessProbe, livenessProbe, ports } = container;
        expect([readinessProbe.httpGet.path, livenessProbe.httpGet.path]).toEqual([
          '/readyz',
          '/healthz',
        ]);
        expect(ports.map(({ name }) => name)).toContain(readinessProbe.httpGet.port);
      }
    }
  });

  test('the proxy does not buffer a stream', () => {
    expect(read('nginx.conf')).toMatch(/proxy_buffering off;/);
    expect(read('kubernetes/duolane.yaml')).toContain("proxy-buffering: 'off'");
  });
});
