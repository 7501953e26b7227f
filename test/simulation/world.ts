export * from '../../src/testing/kernel/world.ts';
