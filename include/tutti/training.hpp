// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training of models on several ranks, over every transport.
#pragma once

#include "tutti/core/config.hpp"  // first, because it refuses compilers that are too old

#include "tutti/training/checkpoint/checkpoint.hpp"
#include "tutti/training/data_parallel.hpp"
#include "tutti/training/elastic/elastic_feedback.hpp"
#include "tutti/training/elastic/elastic_loop.hpp"
#include "tutti/training/elastic/elastic_power_sgd.hpp"
#include "tutti/training/epoch_order.hpp"
#include "tutti/training/gradient_norm.hpp"
#include "tutti/training/hooks/cast.hpp"
#include "tutti/training/hooks/codecs.hpp"
#include "tutti/training/hooks/error_feedback.hpp"
#include "tutti/training/hooks/power_sgd.hpp"
#include "tutti/training/loss_scale.hpp"
#include "tutti/training/optimizers.hpp"
#include "tutti/training/pipeline/pipeline.hpp"
#include "tutti/training/schedule/registry.hpp"
#include "tutti/training/sharded/deferred_model.hpp"
#include "tutti/training/sharded/sharded_data_parallel.hpp"
#include "tutti/training/tensor/sharded_cross_entropy.hpp"
#include "tutti/training/tensor/sharded_dimension.hpp"
#include "tutti/training/tensor/sharded_embedding.hpp"
#include "tutti/training/tensor/tensor_parallel.hpp"
